"""Per pod: both ends of a link become one subject, and its episodes."""
