"""What a frozen program is made of, under which licences, and the texts and the SBOM (CycloneDX) that say so."""
