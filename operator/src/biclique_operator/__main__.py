"""`python -m biclique_operator` is `biclique-operator`."""

from biclique_operator.main import main

main()
