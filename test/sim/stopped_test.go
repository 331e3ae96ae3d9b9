package sim

import "testing"

// Whatever stops attune, a pod that is killed below its original resources has them back within a minute, and is not
// killed a second time.
func TestStoppingKeepsTheSafetyNet(t *testing.T) {
	for name, stop := range waysToStop() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, 0, stoppedWorld(stop))
		})
	}
}

// Pods that crash in a loop already are restored while they wait, as soon as attune can.
func TestTheSafetyNetCatchesPodsInACrashLoop(t *testing.T) {
	for name, stop := range waysToStop() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, 0, stoppedAndDown(stop))
		})
	}
}
