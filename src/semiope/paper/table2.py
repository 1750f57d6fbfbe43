"""Table 2: estimators on the sepsis simulator, ordinary and weighted estimates taken together."""

from __future__ import annotations

from functools import partial

from semiope.paper import comparison, sweeps
from semiope.paper.comparison import Row

TITLE = "Table 2: estimators on the sepsis simulator"
OPTIMAL = "as printed: with annotations of the optimal policy"
ROWS = (
    Row("pdis", "pdis"),
    Row("naive-unweighted (G=Qe)", "naive-unweighted Q*", note=OPTIMAL),
    Row("naive-weighted (G=Qe)", "naive-weighted Q*", note=OPTIMAL),
    Row("c*-pdis (G=Qe)", "c*-pdis (G=Qe)"),
    Row("c*-pdis (G=Qb)", "c*-pdis (G=Qb)"),
    Row("c*-pdis (G=Qb->Qe)", "c*-pdis (G=Qb->Qe)"),
    Row("naive-unweighted (G=Qe, as meant)", "naive-unweighted Qe", whose="as meant"),
    Row("naive-weighted (G=Qe, as meant)", "naive-weighted Qe", whose="as meant"),
    Row("c-pdis (G=Qb), repaired", "repaired", whose="ours"),
    Row("c-pdis (G=Qe), optimal weights", "optimal", whose="ours"),
    Row("dr and wdr, no annotations", "doubly robust", whose="ours"),
    Row("dm-is+ (G=Qe)", "doubly robust, annotated", whose="ours"),
    Row("floor", "floor", whose="ours"),
)
NOTES = (
    "The rows `naive-... (G=Qe)` are what the paper printed: its annotations were those of the optimal policy (Q*), "
    'not of the policy evaluated as the text says. The rows "as meant" have the latter. Both are far worse than '
    "C*-PDIS, so that the paper's conclusion stands.",
    "FPR of `c*-pdis (G=Qb)`: the paper prints 22.0 in Table 2; its own data give 20.0, between the 20.2 and 19.8 of "
    "its Table 5.",
    "As in the paper's code, pi_b is counted per step and state within each dataset; every decision is annotated but "
    "one at a truncated last step; measures are over 52 values (26 ordinary and 26 weighted estimates).",
    '`c-pdis (G=Qb), repaired`: our conversion of answers about today\'s policy (`repair="convert"`) in place of the '
    "paper's. `optimal weights`: split weights of least variance, estimated on other folds. `dr`, `wdr`: doubly robust "
    "with a counted model; `dm-is+`: C-PDIS of what that model misses.",
    "`floor`: everything known but how often each initial state occurs: the mean of V(pi_e) over the logged initial "
    "states. Its root mean square error over many datasets, 0.0100 for 1000 episodes, is what remains of chance "
    "however good annotations are. It is a floor for the error only: whether an estimate reaches the same episodes' "
    "mean return is another question.",
    sweeps.HEAVY_TAILS,
)

# The data of the paper give 20.0, between the 20.2 and 19.8 of its Table 5.
MISPRINTS = {("c*-pdis (G=Qb)", "fpr"): 20.0}

pieces = comparison.pieces
make = partial(comparison.make, "table2", TITLE, ROWS, NOTES, MISPRINTS)
