package prometheus

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"attune.io/attune/usage/address"
)

// dialer checks each address when it is dialled: after the name was resolved, so that no name can stand
// for another address a moment later.
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
