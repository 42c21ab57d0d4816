"""Keep costly results by their identity, so that nothing is made twice."""
