"""Rule 2: what is expected is not a fault."""

from anomaly.denoise.world import BOOT_GRACE, Memory, World
from anomaly.records import Dropped, Finding


def suppress_expected(
    world: World, memory: Memory, findings: tuple[Finding, ...]
) -> tuple[tuple[Finding, ...], tuple[Dropped, ...]]:
    """Everything of nodes in maintenance is set aside, and soft findings of freshly booted ones; but a boot ends no
    incident that goes on."""
    kept, dropped = [], []
    for finding in findings:
        node = finding.entity.name if finding.entity.kind == "node" else None
        if node is None or (finding.hard and node not in world.maintenance):
            kept.append(finding)
        elif node in world.maintenance:
            dropped.append(Dropped(finding, "maintenance"))
        elif 0 <= world.now - world.booted.get(node, -BOOT_GRACE) < BOOT_GRACE and not memory.fires(finding.entity):
            dropped.append(Dropped(finding, "boot_grace"))
        else:
            kept.append(finding)
    return tuple(kept), tuple(dropped)
