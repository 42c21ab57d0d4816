"""Keep costly results under the identity of what made them, so that nothing is made twice."""
