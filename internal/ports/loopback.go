package ports

import (
	"net"
	"strings"
)

// LoopbackHost returns whether the Host header is a loopback name. Another name means that a web page made a
// browser ask here under a name of its own (DNS rebinding).
func LoopbackHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// ForeignPage returns whether the header Sec-Fetch-Site says that a page of another origin makes the browser ask. A person
// who types the address asks with "none", the pages themselves with "same-origin", and what is no browser without one.
func ForeignPage(fetchSite string) bool {
	return fetchSite != "" && fetchSite != "none" && fetchSite != "same-origin"
}
