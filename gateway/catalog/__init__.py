"""The directory of agents: their skills, the ranking, and the documents that list them."""
