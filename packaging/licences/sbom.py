"""The software bill of materials: CycloneDX 1.6 as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component as BomComponent
from cyclonedx.model.component import ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from licences.contents import Component


def sbom_text(version: str, parts: Iterable[Component], made: datetime | None = None) -> str:
    """The document for evprof of this version and its parts. The same parts and time give the same text."""
    licences = LicenseFactory()
    root = BomComponent(
        name="evprof",
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=f"evprof@{version}",
        licenses=[licences.make_from_string("Apache-2.0")],
    )
    inside = [_component(part, licences) for part in parts]
    bom = Bom(components=inside, serial_number=uuid5(NAMESPACE_URL, f"evprof/{version}"))
    bom.metadata.component = root
    bom.metadata.timestamp = made or datetime.now(UTC)
    bom.register_dependency(root, inside)
    text: str = JsonV1Dot6(bom).output_as_string(indent=1)
    return text + "\n"


def _component(part: Component, licences: LicenseFactory) -> BomComponent:
    return BomComponent(
        name=part.name,
        version=part.version,
        type=ComponentType.DATA if part.kind == "typeface" else ComponentType.LIBRARY,
        bom_ref=f"{part.kind}/{part.name}@{part.version}",
        purl=PackageURL.from_string(part.purl) if part.purl else None,
        licenses=[licences.make_from_string(part.licence)],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=part.sha256)] if part.sha256 else [],
        properties=[
            Property(name="evprof:kind", value=part.kind),
            *([Property(name="evprof:hash-of", value=part.hash_of)] if part.sha256 else []),
        ],
        external_references=(
            [ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=XsUri(part.source))] if part.source else []
        ),
    )
