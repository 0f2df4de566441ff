"""The primal by subgradients, the dual by gradient and by coordinate ascent."""
