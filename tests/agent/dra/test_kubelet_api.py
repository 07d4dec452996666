"""The kubelet's messages on the wire, byte for byte as protocol buffers have them."""

from cotenant_agent.dra import kubelet_api


def test_a_message_is_what_its_fields_numbers_say() -> None:
    claim = kubelet_api.dra["v1"]["Claim"](namespace="n", uid="u", name="c")
    assert claim.SerializeToString() == b"\x0a\x01n\x12\x01u\x1a\x01c"


def test_a_map_holds_messages_by_name() -> None:
    answer = kubelet_api.dra["v1beta1"]["NodePrepareResourcesResponse"]()
    answer.claims["u"].devices.add(pool_name="p", device_name="d", cdi_device_ids=["v/c=d"], share_id="s")
    answer.claims["x"].error = "no"
    read = kubelet_api.dra["v1"]["NodePrepareResourcesResponse"].FromString(answer.SerializeToString())
    assert (read.claims["x"].error, list(read.claims["u"].devices[0].cdi_device_ids)) == ("no", ["v/c=d"])


def test_packages_are_those_of_the_kubelet() -> None:
    assert kubelet_api.registration["PluginInfo"].DESCRIPTOR.full_name == "pluginregistration.PluginInfo"
    assert kubelet_api.dra["v1"]["Claim"].DESCRIPTOR.full_name == "k8s.io.kubelet.pkg.apis.dra.v1.Claim"
