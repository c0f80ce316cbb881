"""What a model would come to on a GPU that is not there: lowered, compiled and bounded, never run. All is predicted."""
