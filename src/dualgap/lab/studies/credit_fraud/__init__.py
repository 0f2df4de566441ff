"""SDCA and Pegasos on simulated rows and on card payments, of which one in six hundred is a fraud."""
