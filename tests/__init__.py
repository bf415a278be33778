"""The tests. A package, since an installed library may bring a package of the same name."""
