"""The convergence of Pegasos, SGD and SDCA on clouds in the plane and on breast cancer."""
