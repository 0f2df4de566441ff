"""Speed against the peers. Outside the tests: `python -m benchmarks`, or `benchopt run benchmarks/benchopt_svm`."""
