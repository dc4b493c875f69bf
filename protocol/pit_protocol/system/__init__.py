"""What several programs of pit ask of the operating system."""
