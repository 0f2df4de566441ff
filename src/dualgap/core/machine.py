"""Every number that depends on the machine: cache sizes, work that is worth a thread, and nanoseconds of operations.

They are of a virtual machine with 2 cores of an AMD EPYC (512 kB second-level cache per core, 32 MB shared). `python -m
benchmarks.calibrate` measures them and prints them beside these; there, most agreed within a factor of three, NEWTON_ROW came out seven
times larger and KERNEL_VALUE five times smaller. None changes an answer: each decides which of two ways to it is taken.
Constants that belong to a method, not to the machine, stand in the method's own module.
"""

from __future__ import annotations

# Caches, in bytes
OWN_CACHE = 1_000_000  # a core's own: beyond it, rows are worth reading in the order in which they are stored
FIRST_CACHE_NUMBERS = 2048  # float64 numbers that stay in the first cache while rows are subtracted from them
BLOCK_ROWS, BLOCK_BYTES = (
    16,
    16_384,
)  # neighbouring rows that are read in one go, and their bytes, at most (newsgroup, logistic, C = 1: 1.7)
SHARED_CACHE = 16_000_000  # near a core: beyond it, prefetching a row before its use pays

# Work below which waking a thread costs more than it saves
READING = 8_000_000  # bytes to read
THREAD_WORK = 3_000_000  # products of two numbers to add to a matrix
THREAD_VALUES = 1 << 16  # kernel values to compute
THREAD_ROWS = 1 << 12  # rows of a gradient to update

SMALL_PRODUCTS = 1_000_000  # products of two numbers, and …
SMALL_ROWS = 4_000  # … rows of a Newton step that take about as long as Python's part of the step

# Widths at which one way overtakes another
NARROW = 64  # columns up to which a loop in the first cache forms a Gram matrix faster than the BLAS
CHEAP = 128  # entries of a row up to which a product of two rows takes no longer than storing its result

# Nanoseconds of one pass of dual coordinate steps (solvers/auto.py)
DENSE_ENTRY, SPARSE_ENTRY = 1.0, 3.0  # for each stored number, read for the score and again for the update
STEP = 15.0  # for each row
LOGISTIC_STEP = 60.0  # for each row besides, for the exponential in a step of the logistic loss
EPOCH = 4e4  # Python's part of an epoch, of Newton's method too

# Nanoseconds of one step of Newton's method (solvers/auto.py)
SCORE_ENTRY = (1.0, 1.5)  # for each stored number, dense or sparse: scores and gradient
NEWTON_ROW = 10.0  # for each row: losses and the line search
CHOLESKY = 0.03  # times d³: a factorisation with its solves
BLAS_PRODUCT, NARROW_PRODUCT = (
    0.03,
    0.04,
)  # for each product of two numbers of a dense row that enters the matrix: by BLAS, by a loop
LOOP_PRODUCT = 0.5  # the same for sparse rows

# Nanoseconds of working-set steps (solvers/working_set)
PAIR_STEP = 1.5  # a step on a pair of variables, for each row of the working set
KERNEL_VALUE = 1.0  # a kernel value, read from a cached row
MATRIX_ENTRY = 6.0  # a kernel value, gathered into a matrix
FLOP = 0.015  # a floating-point operation of a large factorisation
CALL = 1e6  # Python's part of a step on all free variables
