package prometheus

import (
	"sync"
	"time"

	"attune.io/attune/usage"
)

const (
	// clientLasts is how long a client is used before its credentials are read again.
	clientLasts = 5 * time.Minute
	// mostClients are kept: a server beyond them has a client for each question.
	mostClients = 256
)

// Clients keeps clients between the questions about watched pods and nodes: connections, transports and
// credentials. A client that gave no answer is dropped, so that a Secret that was changed is read again.
// mostClients bounds it. It is safe for concurrent use; the zero value is empty.
type Clients struct {
	mutex sync.Mutex
	known map[usage.Digest]knownClient
}

// knownClient is a client and when it was made.
type knownClient struct {
	Metered
	made time.Time
}

// Of returns the client of the settings with this digest. It calls dial where there is none that is younger than
// clientLasts. dial runs without the mutex, so two callers may make a client each; the later one is kept. An error
// is that of dial.
func (c *Clients) Of(digest usage.Digest, now time.Time, dial func() (Metered, error)) (Metered, error) {
	c.mutex.Lock()
	known, ok := c.known[digest]
	c.mutex.Unlock()
	if ok && now.Sub(known.made) < clientLasts {
		return known.Metered, nil
	}
	made, err := dial()
	if err != nil {
		return made, err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.forget(now)
	if c.known == nil {
		c.known = map[usage.Digest]knownClient{}
	}
	if len(c.known) < mostClients {
		c.known[digest] = knownClient{made, now}
	}
	return made, nil
}

// forget those that are too old, and their connections.
func (c *Clients) forget(now time.Time) {
	for digest, known := range c.known {
		if now.Sub(known.made) >= clientLasts {
			known.Client.Close()
			delete(c.known, digest)
		}
	}
}

// Drop a client that gave no answer, unless another one has taken its place.
func (c *Clients) Drop(digest usage.Digest, failed *Client) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if known, ok := c.known[digest]; ok && known.Client == failed {
		delete(c.known, digest)
		failed.Close()
	}
}
