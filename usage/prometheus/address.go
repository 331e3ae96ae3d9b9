package prometheus

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"attune.io/attune/usage/address"
)

// dialer returns a dialer that checks each address when it is dialled. The check comes after the name was
// resolved, because a name may resolve to an allowed address when it is checked and to another one a moment later
// (DNS rebinding).
func dialer(policySource bool) *net.Dialer {
	return &net.Dialer{
		Timeout: 10 * time.Second,
		Control: func(_, to string, _ syscall.RawConn) error {
			addressPort, err := netip.ParseAddrPort(to)
			if err != nil || !address.Allowed(addressPort.Addr(), policySource) {
				return addressError{to}
			}
			return nil
		},
	}
}

// addressError refuses an address that a name resolved to.
type addressError struct{ address string }

func (e addressError) Error() string {
	return fmt.Sprintf("the address %s is not allowed: a usage source may not be link-local or multicast, nor loopback where a policy names it", e.address)
}
