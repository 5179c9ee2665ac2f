"""The directory of agents: their skills, the ranking, the documents that list them, and the page for people."""
