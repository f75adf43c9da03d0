"""Reports as files: text, JSON, SARIF 2.1.0 and JUnit XML."""
