package usage

import "net/netip"

// metadataAddresses return the machine's credentials in some cloud. They are neither link-local nor recognisable in
// another way.
var metadataAddresses = [...]netip.Addr{
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd00:ec2::23"),
	netip.MustParseAddr("fd20:ce::254"),
}

var (
	// atEnd are prefixes of addresses with an IPv4 address in their last four bytes: NAT64, IPv4-compatible and
	// IPv4-translated.
	atEnd = [...]netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("::/96"), netip.MustParsePrefix("::ffff:0:0:0/96")}
	// localNAT64 has NAT64 prefixes of 48 to 96 bits that a network chooses (RFC 8215).
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")
	// sixToFour has an IPv4 address after its prefix.
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// AllowedAddress reports whether a source may be reached at the address. It is called when a setting is checked, and
// again when the resolved address is dialled.
//
// No policy may name a link-local (a cloud's metadata service), unspecified or multicast address. An address from a
// policy must not be loopback either, where the operator's own ports listen; only the operator's own configuration may
// use it. Cluster addresses are allowed, because most servers are there, and only namespaces that the operator's values
// name may have a source of their own.
func AllowedAddress(ip netip.Addr, policySource bool) bool {
	ip = ip.Unmap().WithZone("")
	for _, inner := range embeddedIn(ip) {
		if !allowed(inner, policySource) {
			return false
		}
	}
	return allowed(ip, policySource)
}

// allowed judges an address without the IPv4 address that it may embed.
func allowed(ip netip.Addr, policySource bool) bool {
	if !ip.IsValid() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || isBroadcast(ip) {
		return false
	}
	for _, metadata := range metadataAddresses {
		if ip == metadata {
			return false
		}
	}
	return !policySource || !ip.IsLoopback()
}

// embeddedIn returns the IPv4 addresses that an IPv6 address may embed. A prefix of localNAT64 does not show its length,
// so each length counts (RFC 6052, section 2.2), except where it would read the zeros of a longer prefix.
func embeddedIn(ip netip.Addr) (inner []netip.Addr) {
	if !ip.Is6() || ip.IsLoopback() {
		return nil
	}
	b := ip.As16()
	for _, prefix := range atEnd {
		if prefix.Contains(ip) {
			return []netip.Addr{netip.AddrFrom4([4]byte(b[12:]))}
		}
	}
	switch {
	case sixToFour.Contains(ip):
		return []netip.Addr{netip.AddrFrom4([4]byte(b[2:]))}
	case localNAT64.Contains(ip):
		for _, four := range [...][4]byte{{b[6], b[7], b[9], b[10]}, {b[7], b[9], b[10], b[11]}, {b[9], b[10], b[11], b[12]}} {
			if four[0] != 0 {
				inner = append(inner, netip.AddrFrom4(four))
			}
		}
		if len(inner) == 0 {
			inner = []netip.Addr{netip.AddrFrom4([4]byte(b[12:]))}
		}
	}
	return inner
}

func isBroadcast(ip netip.Addr) bool {
	// All of 0.0.0.0/8 is "this host", and some systems treat it as loopback.
	return ip.Is4() && (ip.As4()[0] == 0 || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}))
}
