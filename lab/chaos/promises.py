"""The promises of the pipeline under faults, in the words of reports and of docs/reliability.md."""

NOTHING_LOST = "lost 0, double 0, findings right"
REPORTED = "lost only what was deleted unread, as many as reported; double 0"
