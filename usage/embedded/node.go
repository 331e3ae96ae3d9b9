package embedded

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/usage/address"
)

// Node is a kubelet to scrape.
type Node struct {
	// Name of the Node object. It becomes the label node of all series.
	Name string
	// Address is the node's internal IP and the port of its kubelet.
	Address netip.AddrPort
	// Cores and Bytes are the node's capacity of CPU and memory; 0: it reports none.
	Cores, Bytes float64
}

// NodeOf reads where a node's kubelet answers. An error describes why the node is not scraped: it announces no
// port, or no internal IP, or one that is refused because it could point at another service (loopback, link-local,
// multicast).
func NodeOf(node *corev1.Node) (Node, error) {
	out := Node{
		Name:  node.Name,
		Cores: node.Status.Capacity.Cpu().AsApproximateFloat64(),
		Bytes: node.Status.Capacity.Memory().AsApproximateFloat64(),
	}
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	if port <= 0 || port > 65535 {
		return out, fmt.Errorf("node %s announces no port of its kubelet", node.Name)
	}
	for _, of := range node.Status.Addresses {
		if of.Type != corev1.NodeInternalIP {
			continue
		}
		ip, err := netip.ParseAddr(of.Address)
		if err != nil || !address.Allowed(ip, true) {
			return out, fmt.Errorf("node %s has the internal address %q, where no kubelet is asked: it must be an IP, and neither loopback, link-local nor multicast", node.Name, of.Address)
		}
		out.Address = netip.AddrPortFrom(ip, uint16(port))
		return out, nil
	}
	return out, fmt.Errorf("node %s has no internal IP", node.Name)
}
