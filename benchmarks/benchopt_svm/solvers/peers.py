"""Every installed peer as a benchopt solver; the tolerance walks through the peer's own settings."""

from benchmarks.peers import PEERS, available, quiet
from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion

BY_NAME = {peer.name: peer for peer in PEERS}


class Solver(BaseSolver):
    name = "peer"
    sampling_strategy = "tolerance"
    # benchopt's own patience ends a solver while two or three settings in a row give one model.
    stopping_criterion = SufficientProgressCriterion(eps=1e-10, patience=10, strategy="tolerance")
    parameters = {"library": list(BY_NAME)}

    def skip(self, X, y, loss, l2):
        if self.library not in [peer.name for peer in available(loss)]:
            return True, f"{self.library} is not installed, or does not know the loss {loss}"
        return False, None

    def set_objective(self, X, y, loss, l2):
        self.data = X, y, l2, loss

    def run(self, tolerance):
        peer = BY_NAME[self.library]
        looser = [s for s in peer.settings if s >= tolerance] or list(peer.settings[:1])
        setting = looser[-1] if peer.settings[0] > peer.settings[-1] else peer.settings[-1]
        with quiet():
            self.coef = peer.train(*self.data, setting)

    def get_result(self):
        return {"coef": self.coef}
