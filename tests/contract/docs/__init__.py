"""The generated pages of the documentation, their coverage, and the site made of all pages."""
