"""How an instance of the local AWS becomes a Node: what its boot reads, computes and registers.

`userdata`, `flags`, `capacity` and `node` are pure; `source`, `kube`, `cloud` and `joiner` do the I/O.
"""
