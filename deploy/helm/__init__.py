"""The Helm chart, and the program that renders and checks it."""
