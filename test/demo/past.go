package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"attune.io/attune/test/cluster"
	"attune.io/attune/usage"
	"attune.io/attune/usage/embedded"
)

// writePast gives the operator's own source a past, in a folder that becomes its volume, and returns how the
// chart is told of it. Series that have no end go on until now.
func writePast(ctx context.Context, dir string, all []cluster.Series, now time.Time) (values []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	err = embedded.Import(dir, func(yield func(usage.Series) bool) {
		for _, s := range all {
			if !yield(measured(s, now)) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if err := writable(dir); err != nil {
		return nil, fmt.Errorf("making the past the operator's: %w", err)
	}
	volume := "usage.embedded.volume.hostPath."
	return []string{"usage.source=embedded", "usage.prometheus.address=", volume + "path=" + dir, volume + "type=Directory"}, nil
}

// measured is what was seen of a series.
func measured(s cluster.Series, now time.Time) usage.Series {
	end := s.To
	if end.IsZero() {
		end = now.Truncate(s.Step)
	}
	out := usage.Series{Namespace: s.Namespace, Pod: s.Pod, Container: s.Container}
	for at := s.From; !at.After(end); at = at.Add(s.Step) {
		out.CPU = append(out.CPU, usage.Sample{At: at.UnixMilli(), Value: s.CPU(at)})
		out.Memory = append(out.Memory, usage.Sample{At: at.UnixMilli(), Value: s.Memory(at)})
	}
	return out
}

// writable to anybody: on a node of a demo, nobody's user of the container's number exists.
func writable(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.Chmod(path, 0o777)
		}
		return os.Chmod(path, 0o666)
	})
}
