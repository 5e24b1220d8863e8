"""The logic of shuffler, dispatcher, joiner and merger, in dataflow order. Pure."""
