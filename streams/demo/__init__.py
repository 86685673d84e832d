"""`railsight demo`: the whole pipeline on this machine, what a person sees of it, and the score at its end."""
