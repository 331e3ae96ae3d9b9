package inside

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"attune.io/attune/test/await"
	"attune.io/attune/test/cluster/internal/spec"
	"github.com/vishvananda/netlink"
)

const (
	bridgeName   = "br0"
	nodeLinkName = "eth0"
	vmLinkName   = "vec0" // user-mode Linux says so
)

// controlPlaneNetwork gives this network namespace the bridge that the nodes
// are plugged into. It gets no default route: nothing leaves the cluster.
func controlPlaneNetwork() error {
	if err := up("lo"); err != nil {
		return err
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("adding the bridge: %w", err)
	}
	if err := address(bridgeName, spec.ControlPlaneIP+"/24"); err != nil {
		return err
	}
	return forward()
}

// plugIn connects node i, whose first process is pid, to the bridge and
// routes its pods' addresses to it.
func plugIn(i, pid int) error {
	bridge, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return err
	}
	cable := &netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: CableName(i), MasterIndex: bridge.Attrs().Index},
		PeerName:      nodeLinkName,
		PeerNamespace: netlink.NsPid(pid),
	}
	if err := netlink.LinkAdd(cable); err != nil {
		return fmt.Errorf("adding its cable: %w", err)
	}
	if err := up(cable.Name); err != nil {
		return err
	}
	return route(bridgeName, spec.NodePodCIDR(i), spec.NodeIP(i))
}

// CableName is what the control plane's end of node i's cable is called.
func CableName(i int) string { return fmt.Sprintf("n%d", i) }

// plugInVM makes the cable of a VM node, a tap which the node's kernel opens, and routes its pods' addresses to it.
func plugInVM(i int) error {
	bridge, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return err
	}
	cable := &netlink.Tuntap{
		LinkAttrs: netlink.LinkAttrs{Name: CableName(i), MasterIndex: bridge.Attrs().Index},
		Mode:      netlink.TUNTAP_MODE_TAP,
		Flags:     netlink.TUNTAP_NO_PI,
	}
	if err := netlink.LinkAdd(cable); err != nil {
		return fmt.Errorf("adding its tap: %w", err)
	}
	for _, file := range cable.Fds {
		file.Close()
	}
	if err := up(cable.Name); err != nil {
		return err
	}
	return route(bridgeName, spec.NodePodCIDR(i), spec.NodeIP(i))
}

// nodeNetwork sets up the node's end of the cable, which is called link, as soon as it is plugged in.
func nodeNetwork(i int, link string) error {
	if err := up("lo"); err != nil {
		return err
	}
	if err := waitForLink(link, 30*time.Second); err != nil {
		return err
	}
	if err := address(link, spec.NodeIP(i)+"/24"); err != nil {
		return err
	}
	if err := route(link, "0.0.0.0/0", spec.ControlPlaneIP); err != nil {
		return err
	}
	// Without the bridge netfilter module pods of one node reach each other
	// past iptables, which hurts Services between them only.
	if err := sysctl("net/bridge/bridge-nf-call-iptables", "1"); err != nil {
		logf("%v; Services between pods of one node may not answer", err)
	}
	return forward()
}

func waitForLink(name string, limit time.Duration) error {
	return await.Until(context.Background(), "network device "+name, limit, 5*time.Millisecond, func(context.Context) error {
		_, err := netlink.LinkByName(name)
		if err != nil && !errors.As(err, &netlink.LinkNotFoundError{}) {
			return await.Final(err)
		}
		return err
	})
}

func up(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

func address(name, cidr string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	addr, err := netlink.ParseAddr(cidr)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, addr); err != nil {
		return fmt.Errorf("giving %s the address %s: %w", name, cidr, err)
	}
	return netlink.LinkSetUp(link)
}

func route(name, cidr, via string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	_, dst, err := net.ParseCIDR(cidr)
	if err != nil {
		return err
	}
	r := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: dst, Gw: net.ParseIP(via)}
	if err := netlink.RouteAdd(r); err != nil {
		return fmt.Errorf("routing %s via %s: %w", cidr, via, err)
	}
	return nil
}

func forward() error { return sysctl("net/ipv4/ip_forward", "1") }

// sysctl writes a setting of this network namespace.
func sysctl(name, value string) error {
	return os.WriteFile("/proc/sys/"+name, []byte(value), 0o644)
}
