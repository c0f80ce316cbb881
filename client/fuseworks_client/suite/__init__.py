"""A suite of models: found, run one after another, scored and reported. What `fuseworks bench` is made of."""
