package answers

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// The linker sets them (Makefile).
var (
	version = "dev"
	commit  = ""
)

// Version describes the build of a program.
type Version struct {
	Version string `json:"version"`
	// Commit is empty if not known.
	Commit    string `json:"commit,omitempty"`
	GoVersion string `json:"goVersion"`
}

// BuildVersion returns the version of this program.
func BuildVersion() Version {
	v := Version{Version: version, Commit: commit, GoVersion: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = cmp.Or(v.Commit, s.Value)
			}
		}
	}
	return v
}

// Human implements the plugin's documents; -o wide changes nothing.
func (v Version) Human(bool) (string, error) {
	return fmt.Sprintf("%s, commit %s, %s\n", v.Version, cmp.Or(v.Commit, "unknown"), v.GoVersion), nil
}
