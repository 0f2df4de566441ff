"""SDCA against Pegasos on lymphocytes and neutrophils: pixels of cropped pictures, and 40 principal components of them."""
