"""Table 5: Table 2 once more, and its rows by ordinary and weighted importance sampling."""

from __future__ import annotations

from functools import partial

from semiope.paper import comparison
from semiope.paper.comparison import Row
from semiope.paper.measures import ORDINARY, WEIGHTED

TITLE = "Table 5: ordinary and weighted estimates apart"
FORMS = (("o", ORDINARY), ("w", WEIGHTED))
ROWS = (
    *(Row(f"pd{letter}is", "pdis", (form,)) for letter, form in FORMS),
    *(
        Row(f"c*-pd{letter}is (G={about})", f"c*-pdis (G={about})", (form,))
        for about in ("Qe", "Qb", "Qb->Qe")
        for letter, form in FORMS
    ),
    *(
        Row(f"{kind}-{letter}is (G=Qe, {told})", f"{kind} {about}", (form,), whose=told)
        for about, told in (("Q*", "as printed"), ("Qe", "as meant"))
        for kind in ("naive-unweighted", "naive-weighted")
        for letter, form in FORMS
    ),
    *(Row(f"c-pd{letter}is (G=Qb), repaired", "repaired", (form,), whose="ours") for letter, form in FORMS),
    *(Row(f"c-pd{letter}is (G=Qe), optimal weights", "optimal", (form,), whose="ours") for letter, form in FORMS),
    Row("dr", "doubly robust", (ORDINARY,), whose="ours"),
    Row("wdr", "doubly robust", (WEIGHTED,), whose="ours"),
    Row("dm-is+ (G=Qe)", "doubly robust, annotated", (ORDINARY,), whose="ours"),
    Row("floor", "floor", (ORDINARY,), whose="ours"),
)
NOTES = (
    "The upper half of the paper's Table 5 is Table 2, misprint included. The lower half, here, has the measures "
    "over the 26 ordinary or the 26 weighted estimates alone.",
    'The paper has no naive rows here; ours are with the annotations that its Table 2 used ("as printed", those of the '
    'optimal policy) and with those that it describes ("as meant", those of the policy evaluated).',
    "For the rows of ours see Table 2.",
)

pieces = comparison.pieces
make = partial(comparison.make, "table5", TITLE, ROWS, NOTES, {})
