"""Keep what is dear to make under the identity of what made it, so that nothing is made twice."""
