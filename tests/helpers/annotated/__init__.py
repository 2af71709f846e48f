"""A package of annotated functions of every kind that device code may hold: compiled all, for hosts and devices."""
