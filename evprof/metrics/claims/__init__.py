"""Claims that five analysis documents make, each confirmed or refuted by measurements, or said not to be measured."""
