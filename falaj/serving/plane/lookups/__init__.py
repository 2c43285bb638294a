"""Features looked up before a model is asked. `views` reads the online store, `joining` puts what it says where the model's
columns are, `desk` has it done beside the loop."""
