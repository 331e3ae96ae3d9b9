package main

import (
	"sync"
	"time"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

const (
	// clientLasts is how long a client is used before its credentials are read again.
	clientLasts = 5 * time.Minute
	// mostClients are kept: a server beyond them has a client for each question.
	mostClients = 256
)

// clients of servers that are asked about watched pods and nodes: connections, transports and credentials are kept
// between questions. A client that gave no answer is made anew for the next one, so that a Secret that was changed is
// read again. It is safe for concurrent use.
type clients struct {
	mutex sync.Mutex
	known map[usage.Digest]knownClient
}

type knownClient struct {
	measured
	made time.Time
}

// of the settings with this digest, made where there is none that is young enough.
func (c *clients) of(digest usage.Digest, now time.Time, dial func() (measured, error)) (measured, error) {
	c.mutex.Lock()
	known, ok := c.known[digest]
	c.mutex.Unlock()
	if ok && now.Sub(known.made) < clientLasts {
		return known.measured, nil
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
func (c *clients) forget(now time.Time) {
	for digest, known := range c.known {
		if now.Sub(known.made) >= clientLasts {
			known.Close()
			delete(c.known, digest)
		}
	}
}

// drop a client that gave no answer, unless another one has taken its place.
func (c *clients) drop(digest usage.Digest, failed *prometheus.Client) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if known, ok := c.known[digest]; ok && known.Client == failed {
		delete(c.known, digest)
		failed.Close()
	}
}
