"""`railsight bench gnmi`: what reading a fast switch costs, ours beside a plain client."""
