"""From a finding to an alert, and Alertmanager's client."""
