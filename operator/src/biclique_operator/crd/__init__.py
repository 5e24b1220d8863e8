"""The custom resource definitions, made from the models: `JoinQuery` from biclique.query.manifest, its status and
`JoinSubgroup` from the models here.

`python -m biclique_operator.crd` writes them into the chart; a test holds the files equal to what the models say.
"""
