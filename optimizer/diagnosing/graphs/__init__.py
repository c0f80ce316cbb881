"""What rules on a captured graph share: the graph with its neighbours, the time of its nodes, what a rule claims."""
