"""What every room stands on: ids, time, errors, values and the declaration of an operation. Standard library only."""
