"""The site: the pages of this repository by mkdocs, what is generated for it, and its checks."""
