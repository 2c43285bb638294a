"""What the room promises of chance, played through: with the shipped defaults, and seeds that nobody chose."""
