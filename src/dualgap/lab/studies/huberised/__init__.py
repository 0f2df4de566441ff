"""The huberised hinge with an elastic net: SGD, SAGA, SVRG and APG."""
