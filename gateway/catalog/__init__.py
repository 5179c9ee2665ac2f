"""The catalog: which agents there are, and the page on which people find and try them."""
